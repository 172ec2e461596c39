// Package httpgate is the gate for HTTP requests: it listens, identifies the client, puts each request before its chain
// of throttles, and acts on the verdict. An admitted request is proxied to the upstream. One that must wait is held
// with its body unread until its turn comes or the client leaves. A refused one is answered with its reason, its
// figures and when to come back.
//
// Most callers want New, Listen, Start and Stop; Prepare takes new options while requests are under way.
//
// What a client may take of the gate is bounded: connections, requests, waiting requests, the size of heads and bodies,
// and the time without progress. What it sends is read strictly: a request that two servers could frame in two ways
// never gets past the connection (see package internal/http1).
//
// Each request that the chain took something for is settled exactly once. It counts as done once it may have reached
// the upstream, whatever came back. What was refused, left while waiting, or found no connection to the upstream is
// given back.
//
// Time comes from Env.Clock, with one exception: the operating system keeps deadlines of sockets in real time.
// Certificates and keys are in package keys, the pages for people in package pages.
package httpgate
