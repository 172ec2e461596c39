// Package nexthop hands mails to the next server, by SMTP or LMTP.
//
// Most callers want New, Client.Deliver and Client.Close. A client keeps some connections to one next hop, which may be
// several servers: the first that takes the mail gets it, the others are there for when it does not. A Client is safe
// for concurrent use.
//
// What became of a mail is told for each recipient. Up to the final dot nothing has happened: when the connection ends
// there, or the server closes (421) or talks nonsense, the next server is tried, and where there is none the mail is to
// be tried Later. From the final dot on, only the server knows: its answer counts, and without an answer the outcome is
// Ambiguous. Job.Committed stands between the two. A 4xx or 5xx of a server is its answer, and no reason to try
// another.
//
// A server that cannot be used is left alone for a while, from 5 seconds to a minute, so that not every mail waits for
// it again.
//
// What the server does not know (RFC 5321 section 3.3, 6152, 6531): a mail larger than it takes fails with 5.3.4. A
// mail with 8-bit text for a server without 8BITMIME fails with 5.6.3, as nothing is converted here; whether it has any
// is looked at first, as many clients declare what they do not need. A mail that needs SMTPUTF8 fails in the same way
// with 5.6.7. DSN is passed on where it is known; where not, Result.Relayed says so.
//
// A text with a CR or LF that is not part of a CRLF is not sent, as servers differ in where they see its end.
//
// Auth asks the next hop whether somebody else's password is right, for gates that leave that to it.
//
// Time comes from Env.Clock, with one exception: deadlines of sockets are kept by the operating system in real time.
package nexthop
