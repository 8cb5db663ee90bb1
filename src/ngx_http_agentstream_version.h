
/*
 * Copyright (C) agentstream contributors
 */


#ifndef _NGX_HTTP_AGENTSTREAM_VERSION_H_INCLUDED_
#define _NGX_HTTP_AGENTSTREAM_VERSION_H_INCLUDED_


/*
 * The version, as "agentstream_status" and the error log report it.  CHANGES,
 * the packages and the client library have the same one.
 */


#define NGX_HTTP_AGENTSTREAM_VERSION  "0.2.0"
#define NGX_HTTP_AGENTSTREAM_VER                                              \
    "agentstream/" NGX_HTTP_AGENTSTREAM_VERSION


#endif /* _NGX_HTTP_AGENTSTREAM_VERSION_H_INCLUDED_ */
