// Package smtpgate is the gate for mail: a submission server that authenticates its users, puts each mail
// and each recipient before the throttles, and hands what it takes to the spool, which answers for it from then on.
//
// Most callers want New, Listen, Start and Stop; Prepare takes new options while sessions are under way. A session
// keeps the options that it began with; who is stopped, and who may log in, holds at once.
//
// The one who is charged is the authenticated user; in a network that may send without, the address of the client;
// never the sender address. Whoever is neither may write to the command address and to nobody else. No options that
// Validate lets pass make an open relay.
//
// A mail is answered by 250 when the spool has it safe, and not before. Its text is taken as strictly as SMTP is
// written (RFC 5321 section 2.3.8): a bare CR or LF, where servers may disagree about the end of a mail, is refused,
// and the session with it.
//
// A session is read by one goroutine, in serve: a wire gives it lines, texts and chunks, and nothing of a text is ever
// read as a command, whether the text is taken or not. A chunk that is refused is read to its end; where nobody can say
// where a text ends, the session ends.
//
// Time comes from Env.Clock, with one exception: deadlines of sockets are kept by the operating system in real time.
package smtpgate
