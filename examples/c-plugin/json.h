/* As much of JSON as one tool needs: to find a member of an object. */
#ifndef JSON_H
#define JSON_H

#include <stddef.h>

typedef struct json {
    const char *start;
    size_t length;
} json;

/* The value of a member of an object, as it stands in the text. Its length is 0
 * if there is none, or the text isn't an object. */
json json_member(json object, const char *name);

/* The number that a value is, or 0. */
unsigned long long json_number(json value);

#endif
