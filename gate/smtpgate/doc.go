// Package smtpgate is the gate for mail: a submission server that authenticates its users, puts each message and each
// recipient before the throttles, and hands what it accepts to the spool.
//
// Most callers want New, Listen, Start and Stop. Prepare takes new options during sessions. A session keeps the options
// that it began with. Whether a user is stopped or may log in holds at once.
//
// Messages are charged to the authenticated user, or to the address of a client in a network that may send without
// AUTH, but never to the sender address. All other clients can write only to the command address. Options that Validate
// accepts never make an open relay.
//
// A message is answered by 250 only when it is safe in the spool. The text must end its lines with CR LF (RFC 5321
// section 2.3.8). A bare CR or LF, with which servers may disagree about the end of a message, is refused, and the
// session ends.
//
// One goroutine reads a session, in serve. A wire gives it lines, texts and chunks. No part of a text is read as a
// command, even if the text is refused. A refused chunk is read to its end. If the end of a text is unknown, the
// session ends.
//
// Time comes from Env.Clock, with one exception: the operating system keeps the deadlines of sockets in real time.
package smtpgate
