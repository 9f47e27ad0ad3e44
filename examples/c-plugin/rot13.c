#include "haft_plugin.h"
#include "json.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* The number that the host will know the tool by. */
enum { ROT13 = 1 };

static const char DESCRIBE[] =
    "{\"extensions\":[{\"manifest\":{\"id\":\"rot13\",\"version\":\"1.0.0\","
    "\"api_version\":\"" HAFT_API_VERSION "\","
    "\"description\":\"A tool in C\"}}]}";

static const char REGISTER[] =
    "{\"contributions\":[{\"kind\":\"tools\",\"tools\":[{\"object\":1,\"spec\":{"
    "\"name\":\"rot13\",\"description\":\"Turns each letter half-way around the alphabet\","
    "\"input_schema\":{\"type\":\"object\",\"required\":[\"text\"],"
    "\"properties\":{\"text\":{\"type\":\"string\"}}},"
    "\"effects\":{\"workspace\":\"none\",\"runs_commands\":false,\"network\":false,"
    "\"destructive\":false,\"idempotent\":true}}}]}]}";

/* Instances share nothing: each has its own host. */
typedef struct instance {
    haft_endpoint endpoint;
    const haft_endpoint *host;
    atomic_bool closed;
} instance;

/* All calls are answered at once, so a task is its answer. */
typedef struct answer {
    int32_t status;
    size_t length;
    char json[];
} answer;

static haft_bytes bytes(const char *start, size_t length) {
    return (haft_bytes){(const uint8_t *)start, length};
}

static haft_bytes text(const char *text) {
    return bytes(text, strlen(text));
}

static int32_t answer_poll(void *data, const haft_waker *waker, haft_message *out) {
    (void)waker;
    answer *it = data;
    *out = (haft_message){{NULL, 0}, {NULL, 0}};
    if (it == NULL)
        return HAFT_FAILED; /* there was no memory for more */
    out->json = bytes(it->json, it->length);
    return it->status;
}

static const haft_task_table ANSWER = {sizeof(haft_task_table), answer_poll, free};

static answer *answer_new(int32_t status, const char *json, size_t length) {
    answer *it = malloc(sizeof(answer) + length);
    if (it != NULL) {
        it->status = status;
        it->length = length;
        memcpy(it->json, json, length);
    }
    return it;
}

static answer *answer_text(int32_t status, const char *json) {
    return answer_new(status, json, strlen(json));
}

/* Writes to the sink that the host lends for this call. */
static void write_output(const instance *self, uint64_t sink, const char *line) {
    haft_task task;
    haft_message message;
    self->host->call(self->host->data, sink, text("write"), text("{\"channel\":\"stderr\"}"),
                     text(line), &task);
    task.table->poll(task.data, NULL, &message);
    task.table->drop(task.data);
}

static char rotated(char c) {
    if ((c >= 'a' && c <= 'm') || (c >= 'A' && c <= 'M'))
        return (char)(c + 13);
    if ((c >= 'n' && c <= 'z') || (c >= 'N' && c <= 'Z'))
        return (char)(c - 13);
    return c;
}

/* Turns the letters of a JSON string, but not those of its escapes. */
static void rotate(char *string, size_t length) {
    for (size_t i = 0; i < length; i++) {
        if (string[i] == '\\' && i + 1 < length)
            i += string[i + 1] == 'u' ? 5 : 1;
        else
            string[i] = rotated(string[i]);
    }
}

static answer *execute(const instance *self, json request) {
    static const char BEFORE[] = "{\"parts\":[{\"type\":\"text\",\"text\":";
    static const char AFTER[] = "}],\"is_error\":false}";
    json arguments = json_member(json_member(request, "call"), "arguments");
    json said = json_member(arguments, "text");
    if (said.length < 2 || said.start[0] != '"')
        return answer_text(HAFT_FAILED, "{\"kind\":\"invalid_input\",\"message\":"
                                        "\"`text` must be a string\"}");

    uint64_t sink = json_number(json_member(json_member(request, "context"), "output"));
    if (sink != 0)
        write_output(self, sink, "turning\n");

    size_t before = sizeof(BEFORE) - 1, after = sizeof(AFTER) - 1;
    answer *it = malloc(sizeof(answer) + before + said.length + after);
    if (it == NULL)
        return NULL;
    it->status = HAFT_DONE;
    it->length = before + said.length + after;
    memcpy(it->json, BEFORE, before);
    memcpy(it->json + before, said.start, said.length);
    rotate(it->json + before, said.length);
    memcpy(it->json + before + said.length, AFTER, after);
    return it;
}

static int is(haft_bytes method, const char *name) {
    return method.len == strlen(name) && memcmp(method.ptr, name, method.len) == 0;
}

static void call(void *data, uint64_t object, haft_bytes method, haft_bytes message,
                 haft_bytes blob, haft_task *out) {
    (void)blob;
    instance *self = data;
    json request = {(const char *)message.ptr, message.len};
    answer *it;
    if (atomic_load(&self->closed))
        it = answer_text(HAFT_SHUTDOWN, "");
    else if (object == 0 && is(method, "describe"))
        it = answer_text(HAFT_DONE, DESCRIBE);
    else if (object == 0 && is(method, "register"))
        it = answer_text(HAFT_DONE, REGISTER);
    else if (object == ROT13 && is(method, "execute"))
        it = execute(self, request);
    else
        it = answer_text(HAFT_UNIMPLEMENTED, "");
    *out = (haft_task){it, &ANSWER};
}

/* The one tool is there as long as the plug-in is. */
static void count(void *data, uint64_t object) {
    (void)data, (void)object;
}

static void close_instance(void *data) {
    instance *self = data;
    atomic_store(&self->closed, 1);
}

static void log_line(void *data, uint32_t level, haft_bytes line) {
    (void)data, (void)level, (void)line;
}

static int32_t init(const haft_endpoint *host, uint32_t host_minor, haft_bytes config,
                    const haft_endpoint **out, const haft_text *error) {
    (void)host_minor, (void)config;
    instance *self = malloc(sizeof(instance));
    if (self == NULL) {
        error->write(error->data, text("out of memory"));
        return 1;
    }
    self->endpoint = (haft_endpoint){sizeof(haft_endpoint), self,           call, count, count,
                                     close_instance,        log_line};
    self->host = host;
    atomic_init(&self->closed, 0);
    *out = &self->endpoint;
    return 0;
}

const haft_plugin HAFT_PLUGIN_V1 = {
    .head = HAFT_PLUGIN_HEAD("C"),
    .init = init,
};
