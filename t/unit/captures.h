
/*
 * Copyright (C) agentstream contributors
 */


/*
 * The event streams of t/data/captures, one after the other.
 */


#ifndef _NGX_HTTP_AGENTSTREAM_CAPTURES_H_INCLUDED_
#define _NGX_HTTP_AGENTSTREAM_CAPTURES_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>

#include <dirent.h>

#include "tap.h"


#define CAPTURES  "t/data/captures"


/* the caller frees text; dir is NULL at first, and after the last one */

static ngx_int_t
capture_next(DIR **dir, const char *prefix, char path[512], ngx_str_t *text)
{
    struct dirent  *entry;

    if (*dir == NULL) {
        *dir = opendir(CAPTURES);
    }

    while (*dir && (entry = readdir(*dir))) {

        if (strncmp(entry->d_name, prefix, strlen(prefix)) != 0
            || strstr(entry->d_name, ".event.sse") == NULL)
        {
            continue;
        }

        snprintf(path, 512, CAPTURES "/%s", entry->d_name);

        *text = tap_read(path);

        return NGX_OK;
    }

    if (*dir) {
        closedir(*dir);
        *dir = NULL;
    }

    return NGX_DECLINED;
}


#endif /* _NGX_HTTP_AGENTSTREAM_CAPTURES_H_INCLUDED_ */
