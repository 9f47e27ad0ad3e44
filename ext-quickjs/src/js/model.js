// The turn's model, for tools.
(function ({ native, promise, cancellable }) {

  function request(prompt, options) {
    const { system, temperature, maxTokens, stop, schema } = options;
    const number = (value) => (value === undefined || value === null ? undefined : Number(value));
    return JSON.stringify({
      instructions: system === undefined ? "" : String(system),
      prompt: String(prompt),
      temperature: number(temperature),
      max_output_tokens: number(maxTokens),
      stop: stop === undefined ? [] : [].concat(stop).map(String),
      output_schema: schema,
    });
  }

  async function answer(prompt, options = {}) {
    const { signal } = options;
    signal?.throwIfAborted();
    return cancellable(native.generate(request(prompt, options)), signal);
  }

  const model = {
    answer,
    async generate(prompt, options) {
      return (await answer(prompt, options)).text;
    },
    async summarize(text, options = {}) {
      const words = Math.max(1, Math.ceil(Number(options.maxWords ?? 150)));
      const system = "Summarise the text that follows in at most " + words + " words, in its own language. " +
        "Keep names, numbers and decisions. Write the summary only.";
      return (await answer(text, { ...options, system })).text;
    },
  };

  return { model };
})
