/* The C ABI of Haft's plug-ins, version 1.
 *
 * A plug-in is a shared object that exports one symbol, as data:
 *
 *     const haft_plugin HAFT_PLUGIN_V1 = {
 *         .head = HAFT_PLUGIN_HEAD("built by hand"),
 *         .init = my_init,
 *     };
 *
 * The host reads the head in the file before it loads it. Then it calls init,
 * which returns the plug-in's endpoint. Each side calls the objects of the other
 * through its endpoint. What methods there are and what their messages hold is
 * in PROTOCOL.md beside this file.
 *
 * Rules
 * - All functions may be called from any thread, at the same time. A task is
 *   used by one thread at a time, and may move between threads.
 * - Tables and endpoints live for ever: a shared object is never unloaded.
 * - No exception and no longjmp may leave a function of these tables.
 * - What an argument points to is lent for the call, unless it says otherwise.
 * - Later minor versions add fields at the end of tables. Nobody reads a field
 *   that a table's size doesn't include.
 */
#ifndef HAFT_PLUGIN_H
#define HAFT_PLUGIN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HAFT_ABI_MAJOR 1u
#define HAFT_ABI_MINOR 0u

/* The version of haft-api whose messages this header goes with. */
#define HAFT_API_VERSION "0.1.0"

/* In haft_plugin_head.flags: a failure inside is caught inside. True for C,
 * which has nothing that unwinds. A host loads nothing without it. */
#define HAFT_FLAG_UNWINDS 1u

/* Bytes that belong to somebody else. ptr may be null if len is 0. */
typedef struct haft_bytes {
    const uint8_t *ptr;
    size_t len;
} haft_bytes;

/* UTF-8 JSON, and raw bytes that are too large to be escaped. Both may be
 * empty. */
typedef struct haft_message {
    haft_bytes json;
    haft_bytes blob;
} haft_message;

typedef struct haft_waker_table {
    size_t size;
    /* Makes a waker to keep beyond the call of poll. */
    const void *(*clone)(const void *data);
    /* Wakes the task; the waker stays usable. */
    void (*wake)(const void *data);
    /* Lets go of a clone. */
    void (*drop)(const void *data);
} haft_waker_table;

/* Lent for the call of poll that it is given to. */
typedef struct haft_waker {
    const void *data;
    const haft_waker_table *table;
} haft_waker;

/* What poll returns. After any but the first two only drop may follow. */
enum {
    /* Not yet; the waker, or the last clone of one, will be woken. */
    HAFT_PENDING = 0,
    /* One message of a stream. */
    HAFT_ITEM = 1,
    /* The end, with the result; of a stream, with nothing. */
    HAFT_DONE = 2,
    /* The end, with an error as JSON. */
    HAFT_FAILED = 3,
    /* The end; the object has no such method. */
    HAFT_UNIMPLEMENTED = 4,
    /* The end; this side was closed. */
    HAFT_SHUTDOWN = 5
};

typedef struct haft_task_table {
    size_t size;
    /* out belongs to the task, and stays until its next poll or drop. */
    int32_t (*poll)(void *data, const haft_waker *waker, haft_message *out);
    /* Called once. Cancels what the task stands for before it returns. */
    void (*drop)(void *data);
} haft_task_table;

typedef struct haft_task {
    void *data;
    const haft_task_table *table;
} haft_task;

/* What either side offers to the other. */
typedef struct haft_endpoint {
    size_t size;
    /* Handed to all functions. */
    void *data;
    /* Calls a method of an object. Always fills out; what is wrong with the
     * call is said by the task. Ids of objects in the request are lent until
     * the task is dropped; ids in its results are given. */
    void (*call)(void *data, uint64_t object, haft_bytes method, haft_bytes json,
                 haft_bytes blob, haft_task *out);
    /* Keeps an object. Unknown ids are ignored. */
    void (*retain)(void *data, uint64_t object);
    /* Lets go of an object that was kept or given. Unknown ids are ignored. */
    void (*release)(void *data, uint64_t object);
    /* Ends all work; every later call answers HAFT_SHUTDOWN. */
    void (*close)(void *data);
    /* Writes a line into that side's log: 1 error, 2 warning, 3 information,
     * 4 for whoever looks for a fault. */
    void (*log)(void *data, uint32_t level, haft_bytes text);
} haft_endpoint;

/* Where init says what went wrong. */
typedef struct haft_text {
    void *data;
    /* Appends. */
    void (*write)(void *data, haft_bytes text);
} haft_text;

/* Holds no pointer, so that it can be read in the file. */
typedef struct haft_plugin_head {
    uint8_t magic[8];
    uint32_t abi_major;
    /* The least minor version of the host that will do. */
    uint32_t abi_minor;
    uint32_t flags;
    /* Of the whole haft_plugin. */
    uint32_t size;
    /* Padded with zeros. */
    char api_version[32];
    /* For people; padded with zeros. */
    char build_info[72];
} haft_plugin_head;

typedef struct haft_plugin {
    haft_plugin_head head;
    /* Makes an instance: returns 0 and fills out, or anything else and writes a
     * text, or an error as JSON. May be called more than once; instances share
     * nothing. host lives for ever. */
    int32_t (*init)(const haft_endpoint *host, uint32_t host_minor, haft_bytes config,
                    const haft_endpoint **out, const haft_text *error);
} haft_plugin;

#define HAFT_PLUGIN_HEAD(info)                                                   \
    {                                                                            \
        {'H', 'A', 'F', 'T', 'P', 'L', 'U', 'G'}, HAFT_ABI_MAJOR, HAFT_ABI_MINOR, \
            HAFT_FLAG_UNWINDS, sizeof(haft_plugin), HAFT_API_VERSION, info       \
    }

#if defined(__GNUC__)
#define HAFT_EXPORT __attribute__((visibility("default")))
#else
#define HAFT_EXPORT
#endif

/* The one symbol a plug-in exports. */
extern HAFT_EXPORT const haft_plugin HAFT_PLUGIN_V1;

#ifdef __cplusplus
}
#endif

#endif
