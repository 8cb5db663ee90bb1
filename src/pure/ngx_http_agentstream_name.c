
/*
 * Copyright (C) agentstream contributors
 */


/*
 * Names and owners of sessions: SHA-256 over what the header says.  Each field
 * is hashed with its length, so that two different lists of fields never look
 * the same to the hash.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_agentstream_name.h"

#if (NGX_HTTP_AGENTSTREAM_NAMES)
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/rand.h>
#endif


/*
 * How safe this is.
 *
 * The seal has 16 base-62 digits, 95 bits.  It is a hash without a key, for
 * there is nothing to keep secret: the owner is never taken from the client, it
 * is what nginx has found out by itself, and everybody may know how a seal is
 * computed.  Whoever wants to use a session of somebody else needs an id that
 * ends with the seal of his own name, and the id of that session ends with the
 * seal of another name.  Both are the same with a chance of 1 : 2^95 for each
 * session that exists, and he cannot try again by choosing another name for a
 * session, because the ten digits before the seal are part of what it covers:
 * with 2^59 hashes he finds a name whose ten digits are those of a session of
 * somebody else, but his own seal follows them.  Where users choose their own
 * login names, one of them could search for a name whose seal fits a session he
 * knows: 2^95 hashes.
 *
 * The ten digits have 59 bits.  Two names of the same owner fall together with
 * a chance of 1 : 2^59 for each pair: one in a thousand millions for 30,000
 * names.  A session without a name has ten random digits, with the same chance.
 * Whoever searches for two such names finds only sessions of his own.  Without
 * owners everybody who is let in may use every session anyway.
 */


/* of SHA-256 */
#define NGX_HTTP_AGENTSTREAM_NAME_HASH  32


typedef struct {
    ngx_str_t                           *fields[6];
    ngx_uint_t                           n;
} ngx_http_agentstream_name_input_t;


static ngx_int_t ngx_http_agentstream_name_hash(
    ngx_http_agentstream_name_input_t *input, u_char *digest);
static u_char *ngx_http_agentstream_name_digits(u_char *dst, u_char *src,
    ngx_uint_t n);
static ngx_int_t ngx_http_agentstream_name_seal(ngx_str_t *owner, u_char *id,
    u_char *seal);
static ngx_uint_t ngx_http_agentstream_name_differ(u_char *one, u_char *other,
    size_t len);
static ngx_int_t ngx_http_agentstream_name_random(u_char *dst, size_t len);


ngx_uint_t
ngx_http_agentstream_name_valid(ngx_str_t *name)
{
    u_char  ch, *p, *last;

    if (name->len == 0 || name->len > NGX_HTTP_AGENTSTREAM_NAME_MAX) {
        return 0;
    }

    last = name->data + name->len;

    for (p = name->data; p < last; p++) {
        ch = *p;

        if ((ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z')
            || (ch >= '0' && ch <= '9')
            || ch == '.' || ch == '_' || ch == ':' || ch == '~' || ch == '-')
        {
            continue;
        }

        return 0;
    }

    return 1;
}


ngx_int_t
ngx_http_agentstream_name_id(ngx_http_agentstream_name_scope_t *scope,
    ngx_str_t *name, u_char *id)
{
    u_char                             digest[NGX_HTTP_AGENTSTREAM_NAME_HASH];
    ngx_http_agentstream_name_input_t  input;

    input.fields[0] = &scope->server;
    input.fields[1] = &scope->prefix;
    input.fields[2] = &scope->route;
    input.fields[3] = &scope->owner;
    input.fields[4] = &scope->directory;
    input.fields[5] = name;
    input.n = 6;

    if (ngx_http_agentstream_name_hash(&input, digest) != NGX_OK) {
        return NGX_ERROR;
    }

    return ngx_http_agentstream_name_new(&scope->owner, digest, id);
}


ngx_int_t
ngx_http_agentstream_name_new(ngx_str_t *owner, u_char *seed, u_char *id)
{
    u_char  *p, random[8];

    if (seed == NULL) {
        seed = random;

        if (ngx_http_agentstream_name_random(random, sizeof(random)) != NGX_OK)
        {
            return NGX_ERROR;
        }
    }

    p = ngx_cpymem(id, "ses_", sizeof("ses_") - 1);

    p = ngx_http_agentstream_name_digits(p, seed,
                                         NGX_HTTP_AGENTSTREAM_NAME_DIGITS);

    return ngx_http_agentstream_name_seal(owner, id, p);
}


ngx_int_t
ngx_http_agentstream_name_owned(ngx_str_t *owner, ngx_str_t *id)
{
    u_char  seal[NGX_HTTP_AGENTSTREAM_NAME_SEAL];

    if (id->len != NGX_HTTP_AGENTSTREAM_NAME_ID_LEN
        || ngx_strncmp(id->data, "ses_", sizeof("ses_") - 1) != 0)
    {
        return NGX_DECLINED;
    }

    if (ngx_http_agentstream_name_seal(owner, id->data, seal) != NGX_OK) {
        return NGX_ERROR;
    }

    return ngx_http_agentstream_name_differ(id->data + id->len - sizeof(seal),
                                            seal, sizeof(seal))
           ? NGX_DECLINED : NGX_OK;
}


/* the seal of the owner for the digits that id begins with */

static ngx_int_t
ngx_http_agentstream_name_seal(ngx_str_t *owner, u_char *id, u_char *seal)
{
    u_char                             *p;
    u_char                              digest[NGX_HTTP_AGENTSTREAM_NAME_HASH];
    ngx_str_t                           digits;
    ngx_http_agentstream_name_input_t   input;

    digits.data = id + sizeof("ses_") - 1;
    digits.len = NGX_HTTP_AGENTSTREAM_NAME_DIGITS;

    input.fields[0] = owner;
    input.fields[1] = &digits;
    input.n = 2;

    if (ngx_http_agentstream_name_hash(&input, digest) != NGX_OK) {
        return NGX_ERROR;
    }

    /* 8 bytes have room for 10 digits, with next to no bias for 8 of them */

    p = ngx_http_agentstream_name_digits(seal, digest,
                                         NGX_HTTP_AGENTSTREAM_NAME_SEAL / 2);

    (void) ngx_http_agentstream_name_digits(p, digest + sizeof(uint64_t),
                                        NGX_HTTP_AGENTSTREAM_NAME_SEAL / 2);

    return NGX_OK;
}


#if (NGX_HTTP_AGENTSTREAM_NAMES)

static ngx_int_t
ngx_http_agentstream_name_hash(ngx_http_agentstream_name_input_t *input,
    u_char *digest)
{
    int          ok;
    u_char       len[8];
    ngx_str_t   *field;
    EVP_MD_CTX  *ctx;
    ngx_uint_t   i, n;

    ctx = EVP_MD_CTX_new();

    if (ctx == NULL) {
        return NGX_ERROR;
    }

    ok = EVP_DigestInit_ex(ctx, EVP_sha256(), NULL);

    for (i = 0; ok && i < input->n; i++) {
        field = input->fields[i];

        for (n = 0; n < sizeof(len); n++) {
            len[n] = (uint64_t) field->len >> (56 - 8 * n);
        }

        ok = EVP_DigestUpdate(ctx, len, sizeof(len))
             && EVP_DigestUpdate(ctx, field->data, field->len);
    }

    ok = ok && EVP_DigestFinal_ex(ctx, digest, NULL);

    EVP_MD_CTX_free(ctx);

    return ok ? NGX_OK : NGX_ERROR;
}


/* takes the same time wherever they differ */

static ngx_uint_t
ngx_http_agentstream_name_differ(u_char *one, u_char *other, size_t len)
{
    return CRYPTO_memcmp(one, other, len) != 0;
}


static ngx_int_t
ngx_http_agentstream_name_random(u_char *dst, size_t len)
{
    return (RAND_bytes(dst, len) == 1) ? NGX_OK : NGX_ERROR;
}

#else

static ngx_int_t
ngx_http_agentstream_name_hash(ngx_http_agentstream_name_input_t *input,
    u_char *digest)
{
    return NGX_ERROR;
}


static ngx_uint_t
ngx_http_agentstream_name_differ(u_char *one, u_char *other, size_t len)
{
    return 1;
}


static ngx_int_t
ngx_http_agentstream_name_random(u_char *dst, size_t len)
{
    return NGX_ERROR;
}

#endif


/* n digits of the number that the 8 bytes from src on are */

static u_char *
ngx_http_agentstream_name_digits(u_char *dst, u_char *src, ngx_uint_t n)
{
    uint64_t    value;
    ngx_uint_t  i;

    static const u_char  digits[] =
        "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

    value = 0;

    for (i = 0; i < sizeof(uint64_t); i++) {
        value = value << 8 | src[i];
    }

    while (n--) {
        *dst++ = digits[value % 62];
        value /= 62;
    }

    return dst;
}
