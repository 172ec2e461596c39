// Package nexthop hands messages to the next server, by SMTP or LMTP.
//
// Most callers want New, Client.Deliver and Client.Close. A client keeps connections to one next hop, which may be
// several servers. The first that takes the message gets it. A Client is safe for concurrent use.
//
// There is a result for each recipient. Before the final dot nothing has happened: if the connection ends, the server
// closes it (421) or talks nonsense, the next server is tried, and after the last one the result is Later. After the
// final dot only the server knows: its answer counts, and without an answer the result is Ambiguous. Job.Committed is
// called between the two. A 4xx or 5xx is an answer, and no reason to try another server.
//
// A server that cannot be used is left alone for 5 seconds to a minute, so that not every message waits for it.
//
// Extensions that a server does not have (RFC 5321 section 3.3, 6152, 6531): a message larger than it takes fails with
// 5.3.4. A message with 8-bit text for a server without 8BITMIME fails with 5.6.3, since nothing is converted here. The
// text is looked at first, since many clients declare what they do not need. A message that needs SMTPUTF8 fails in the
// same way with 5.6.7. DSN is passed on to servers that have it; for others there is Result.Relayed.
//
// A text with a CR or LF that is not part of a CRLF is not sent, since servers disagree on where it ends.
//
// Auth asks the next hop whether the password of a user is right.
//
// Time comes from Env.Clock, with one exception: the operating system keeps the deadlines of sockets in real time.
package nexthop
