
/*
 * Copyright (C) agentstream contributors
 */


/*
 * Proofs that a webhook comes from the platform: secrets that are compared, and
 * signatures (HMAC-SHA256) over its body.  Whatever is compared with a secret
 * takes the same time wherever they differ.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_agentstream_chat_int.h"

#if (NGX_HTTP_AGENTSTREAM_CHATS)

#include <openssl/crypto.h>
#include <openssl/evp.h>


/* of SHA-256 */
#define NGX_HTTP_AGENTSTREAM_CHAT_DIGEST  32


static ngx_int_t ngx_http_agentstream_chat_hash(EVP_MD_CTX *ctx,
    ngx_str_t **list, ngx_uint_t escaped);
static ngx_int_t ngx_http_agentstream_chat_hash_escaped(EVP_MD_CTX *ctx,
    ngx_str_t *text);


ngx_uint_t
ngx_http_agentstream_chat_same(ngx_str_t *one, ngx_str_t *other)
{
    return one->len == other->len
           && CRYPTO_memcmp(one->data, other->data, one->len) == 0;
}


ngx_int_t
ngx_http_agentstream_chat_signed(ngx_str_t *signature, const char *prefix,
    ngx_str_t *secret, ngx_str_t **list, ngx_uint_t escaped)
{
    size_t       len, size;
    u_char       digest[NGX_HTTP_AGENTSTREAM_CHAT_DIGEST];
    u_char       hex[2 * NGX_HTTP_AGENTSTREAM_CHAT_DIGEST];
    EVP_PKEY    *key;
    ngx_int_t    rc;
    ngx_str_t    expected, given;
    EVP_MD_CTX  *ctx;

    len = ngx_strlen(prefix);

    if (secret->len == 0 || signature->len != len + sizeof(hex)
        || ngx_strncmp(signature->data, prefix, len) != 0)
    {
        return NGX_DECLINED;
    }

    key = EVP_PKEY_new_raw_private_key(EVP_PKEY_HMAC, NULL, secret->data,
                                       secret->len);
    if (key == NULL) {
        return NGX_ERROR;
    }

    ctx = EVP_MD_CTX_new();

    if (ctx == NULL) {
        EVP_PKEY_free(key);
        return NGX_ERROR;
    }

    size = sizeof(digest);
    rc = NGX_ERROR;

    if (EVP_DigestSignInit(ctx, NULL, EVP_sha256(), NULL, key) == 1) {
        rc = ngx_http_agentstream_chat_hash(ctx, list, escaped);
    }

    if (rc == NGX_OK && EVP_DigestSignFinal(ctx, digest, &size) != 1) {
        rc = NGX_ERROR;
    }

    EVP_MD_CTX_free(ctx);
    EVP_PKEY_free(key);

    if (rc != NGX_OK) {
        return rc;
    }

    (void) ngx_hex_dump(hex, digest, sizeof(digest));

    expected.data = hex;
    expected.len = sizeof(hex);

    given.data = signature->data + len;
    given.len = sizeof(hex);

    return ngx_http_agentstream_chat_same(&given, &expected) ? NGX_OK
                                                             : NGX_DECLINED;
}


static ngx_int_t
ngx_http_agentstream_chat_hash(EVP_MD_CTX *ctx, ngx_str_t **list,
    ngx_uint_t escaped)
{
    ngx_int_t  rc;

    for ( /* void */ ; *list; list++) {

        if (escaped) {
            rc = ngx_http_agentstream_chat_hash_escaped(ctx, *list);

            if (rc != NGX_OK) {
                return rc;
            }

        } else if (EVP_DigestSignUpdate(ctx, (*list)->data, (*list)->len)
                   != 1)
        {
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}


/* as if each character that is not ASCII were written as \uXXXX; NGX_DECLINED:
   it is not UTF-8 */

static ngx_int_t
ngx_http_agentstream_chat_hash_escaped(EVP_MD_CTX *ctx, ngx_str_t *text)
{
    u_char    *p, *start, *last, *end;
    u_char     buf[12];
    uint32_t   ch;

    p = text->data;
    last = p + text->len;

    while (p < last) {

        for (start = p; p < last && *p < 0x80; p++) { /* void */ }

        if (p > start && EVP_DigestSignUpdate(ctx, start, p - start) != 1) {
            return NGX_ERROR;
        }

        if (p == last) {
            break;
        }

        ch = ngx_utf8_decode(&p, last - p);

        if (ch > 0x10ffff) {
            return NGX_DECLINED;
        }

        /* at most two escapes */

        end = (ch < 0x10000)
              ? ngx_sprintf(buf, "\\u%04xD", ch)
              : ngx_sprintf(buf, "\\u%04xD\\u%04xD",
                            0xd800 + ((ch - 0x10000) >> 10),
                            0xdc00 + ((ch - 0x10000) & 0x3ff));

        if (EVP_DigestSignUpdate(ctx, buf, end - buf) != 1) {
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}

#endif
