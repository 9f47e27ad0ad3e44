#include "json.h"

#include <string.h>

static size_t skip_space(json text, size_t at) {
    while (at < text.length && strchr(" \t\r\n", text.start[at]) != NULL)
        at++;
    return at;
}

/* The place after a string that begins here. */
static size_t skip_string(json text, size_t at) {
    for (at++; at < text.length && text.start[at] != '"'; at++)
        if (text.start[at] == '\\')
            at++;
    return at < text.length ? at + 1 : text.length;
}

/* The place after a value that begins here. */
static size_t skip_value(json text, size_t at) {
    size_t depth = 0;
    while (at < text.length) {
        char c = text.start[at];
        if (c == '"') {
            at = skip_string(text, at);
            if (depth == 0)
                return at;
            continue;
        }
        if (c == '{' || c == '[')
            depth++;
        else if (c == '}' || c == ']') {
            if (depth == 0)
                return at;
            if (--depth == 0)
                return at + 1;
        } else if (depth == 0 && strchr(", \t\r\n", c) != NULL)
            return at;
        at++;
    }
    return at;
}

json json_member(json object, const char *name) {
    json none = {NULL, 0};
    size_t at = skip_space(object, 0);
    if (at >= object.length || object.start[at] != '{')
        return none;
    at = skip_space(object, at + 1);
    while (at < object.length && object.start[at] == '"') {
        size_t key = at + 1;
        at = skip_string(object, at);
        size_t length = at - key - 1;
        at = skip_space(object, at);
        if (at >= object.length || object.start[at] != ':')
            return none;
        at = skip_space(object, at + 1);
        size_t end = skip_value(object, at);
        if (length == strlen(name) && memcmp(object.start + key, name, length) == 0)
            return (json){object.start + at, end - at};
        at = skip_space(object, end);
        if (at < object.length && object.start[at] == ',')
            at = skip_space(object, at + 1);
    }
    return none;
}

unsigned long long json_number(json value) {
    unsigned long long number = 0;
    for (size_t i = 0; i < value.length; i++) {
        if (value.start[i] < '0' || value.start[i] > '9')
            return 0;
        number = number * 10 + (unsigned long long)(value.start[i] - '0');
    }
    return number;
}
