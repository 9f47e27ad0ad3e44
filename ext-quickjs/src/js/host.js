// The clock, credentials, the platform, other skills.
(function ({ native, promise }) {

  const cron = {
    register: (id, expression) => native.cronRegister(String(id), String(expression)),
    unregister: (id) => native.cronUnregister(String(id)),
    list: () => native.cronList().map(([id, expression, next]) => ({ id, expression, next })),
  };

  function token(credential) {
    const found = credential?.access_token ?? credential?.accessToken ?? credential?.token;
    if (typeof found !== "string") throw new Error("the skill has no credential with an access token");
    return found;
  }

  const oauth = {
    getCredential: () => native.credential(),
    revoke: () => native.revoke(),
    async fetch(url, init = {}) {
      const headers = new Headers(init.headers);
      headers.set("authorization", "Bearer " + token(native.credential()));
      return fetch(url, { ...init, headers });
    },
  };

  const platform = {
    os: () => native.os(),
    env: (name) => native.env(String(name)) ?? null,
    notify: (title, body = "") => native.notify(String(title), String(body)),
  };

  const skills = {
    list: () => native.skills(),
    async callTool(skill, tool, args = {}) {
      return promise(native.callTool(String(skill), String(tool), args));
    },
  };

  return { cron, oauth, platform, skills };
})
