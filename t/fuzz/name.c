
/*
 * Copyright (C) agentstream contributors
 */


/*
 * Any scope, name and id, as a client, a variable of nginx.conf or OpenCode may
 * have them.  Checked: a name is valid if and only if it is written in the
 * alphabet of docs/protocol.md; its id is what another implementation of that
 * page computes; the id is its owner's and nobody else's; the same bytes with
 * other borders between the fields have another id; an id with a byte changed,
 * and any id that was not made here, is nobody's.
 *
 * The input: server, prefix, route, owner, directory, name, another owner, an
 * id, and which byte is changed to what.  Each has its length before it.
 */


#include <ngx_config.h>
#include <ngx_core.h>

#include <openssl/sha.h>

#include "ngx_http_agentstream_name.h"


#define check(x)  if (!(x)) { __builtin_trap(); }

#define FUZZ_NAME    5
#define FUZZ_OTHER   6
#define FUZZ_ID      7
#define FUZZ_CHANGE  8
#define FUZZ_FIELDS  9


static const char  fuzz_alphabet[] =
    "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";


int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);


/* SHA-256 over the fields, each preceded by its length */

static void
fuzz_hash(ngx_str_t **fields, ngx_uint_t n, u_char *digest)
{
    size_t       len;
    u_char      *text, *p;
    ngx_uint_t   i;

    len = 0;

    for (i = 0; i < n; i++) {
        len += 8 + fields[i]->len;
    }

    text = calloc(1, len + 1);
    p = text;

    for (i = 0; i < n; i++) {

        /* no field of the fuzzer has more than 255 bytes */

        p[7] = (u_char) fields[i]->len;
        p = ngx_cpymem(p + 8, fields[i]->data, fields[i]->len);
    }

    SHA256(text, len, digest);
    free(text);
}


/* the last n digits of the number in 8 bytes, by division on paper */

static void
fuzz_digits(char *dst, const u_char *number, ngx_uint_t n)
{
    u_char      left[8];
    unsigned    rest;
    ngx_uint_t  i;

    ngx_memcpy(left, number, sizeof(left));

    while (n--) {
        rest = 0;

        for (i = 0; i < sizeof(left); i++) {
            rest = rest * 256 + left[i];
            left[i] = (u_char) (rest / 62);
            rest %= 62;
        }

        *dst++ = fuzz_alphabet[rest];
    }
}


/* what the end of an id must be if the owner has it */

static void
fuzz_seal(ngx_str_t *owner, u_char *id, char *seal)
{
    u_char     digest[SHA256_DIGEST_LENGTH];
    ngx_str_t  digits, *fields[2];

    digits.data = id + 4;
    digits.len = NGX_HTTP_AGENTSTREAM_NAME_DIGITS;

    fields[0] = owner;
    fields[1] = &digits;
    fuzz_hash(fields, 2, digest);

    fuzz_digits(seal, digest, 8);
    fuzz_digits(seal + 8, digest + 8, 8);
}


static void
fuzz_owned(ngx_str_t *owner, ngx_str_t *id)
{
    char        seal[NGX_HTTP_AGENTSTREAM_NAME_SEAL];
    ngx_uint_t  owned;

    owned = 0;

    if (id->len == 4 + 10 + 16 && ngx_memcmp(id->data, "ses_", 4) == 0) {
        fuzz_seal(owner, id->data, seal);
        owned = (ngx_memcmp(id->data + 14, seal, sizeof(seal)) == 0);
    }

    check(ngx_http_agentstream_name_owned(owner, id)
          == (owned ? NGX_OK : NGX_DECLINED));
}


/* the id of fields[FUZZ_NAME], with room for not a byte more */

static ngx_str_t
fuzz_id(ngx_str_t *fields)
{
    ngx_str_t                          id;
    ngx_http_agentstream_name_scope_t  scope;

    scope.server = fields[0];
    scope.prefix = fields[1];
    scope.route = fields[2];
    scope.owner = fields[3];
    scope.directory = fields[4];

    id.len = NGX_HTTP_AGENTSTREAM_NAME_ID_LEN;
    id.data = malloc(id.len);

    check(ngx_http_agentstream_name_id(&scope, &fields[FUZZ_NAME], id.data)
          == NGX_OK);

    return id;
}


static void
fuzz_expect(ngx_str_t *fields, ngx_str_t *id)
{
    char         expected[10 + 16];
    u_char       digest[SHA256_DIGEST_LENGTH];
    ngx_str_t   *list[FUZZ_NAME + 1];
    ngx_uint_t   i;

    for (i = 0; i <= FUZZ_NAME; i++) {
        list[i] = &fields[i];
    }

    fuzz_hash(list, FUZZ_NAME + 1, digest);
    fuzz_digits(expected, digest, 10);
    fuzz_seal(&fields[3], id->data, expected + 10);

    check(id->len == 30 && ngx_memcmp(id->data, "ses_", 4) == 0);
    check(ngx_memcmp(id->data + 4, expected, sizeof(expected)) == 0);
}


/* the same bytes in a row, the border between two fields elsewhere */

static void
fuzz_border(ngx_str_t *fields, ngx_str_t *id)
{
    u_char      *both;
    ngx_str_t    moved[FUZZ_FIELDS], other;
    ngx_uint_t   i;

    for (i = 0; i < FUZZ_NAME; i++) {

        if (fields[i].len == 0) {
            continue;
        }

        ngx_memcpy(moved, fields, sizeof(moved));

        both = malloc(fields[i].len + fields[i + 1].len);
        ngx_memcpy(ngx_cpymem(both, fields[i].data, fields[i].len),
                   fields[i + 1].data, fields[i + 1].len);

        moved[i].data = both;
        moved[i].len--;
        moved[i + 1].data = both + moved[i].len;
        moved[i + 1].len++;

        other = fuzz_id(moved);
        check(ngx_memcmp(other.data, id->data, id->len) != 0);

        free(other.data);
        free(both);
    }
}


static void
fuzz_valid(ngx_str_t *name)
{
    u_char      *p;
    ngx_uint_t   i, valid;

    valid = (name->len >= 1 && name->len <= 80);

    for (i = 0; i < name->len; i++) {
        p = &name->data[i];
        valid = valid && *p && (strchr(fuzz_alphabet, *p)
                                || strchr("._:~-", *p));
    }

    check(ngx_http_agentstream_name_valid(name) == valid);
}


static void
fuzz_fields(ngx_str_t *fields)
{
    u_char     *p;
    ngx_str_t   id, *owner, *other, *change;

    owner = &fields[3];
    other = &fields[FUZZ_OTHER];
    change = &fields[FUZZ_CHANGE];

    fuzz_valid(&fields[FUZZ_NAME]);
    fuzz_owned(owner, &fields[FUZZ_ID]);

    id = fuzz_id(fields);

    fuzz_expect(fields, &id);
    fuzz_owned(other, &id);
    fuzz_border(fields, &id);

    check(ngx_http_agentstream_name_owned(owner, &id) == NGX_OK);

    if (other->len != owner->len
        || ngx_memcmp(other->data, owner->data, owner->len) != 0)
    {
        check(ngx_http_agentstream_name_owned(other, &id) == NGX_DECLINED);
    }

    if (change->len >= 2) {
        p = &id.data[change->data[0] % id.len];

        if (*p != change->data[1]) {
            *p = change->data[1];
            check(ngx_http_agentstream_name_owned(owner, &id)
                  == NGX_DECLINED);
        }
    }

    free(id.data);
}


int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t      len;
    ngx_str_t   fields[FUZZ_FIELDS];
    ngx_uint_t  i;

    for (i = 0; i < FUZZ_FIELDS; i++) {
        len = 0;

        if (size) {
            len = ngx_min(data[0], size - 1);
            data++;
            size--;
        }

        fields[i].len = len;
        fields[i].data = malloc(len);
        ngx_memcpy(fields[i].data, data, len);

        data += len;
        size -= len;
    }

    fuzz_fields(fields);

    for (i = 0; i < FUZZ_FIELDS; i++) {
        free(fields[i].data);
    }

    return 0;
}
