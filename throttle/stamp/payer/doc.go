// Package payer is the other side of stamps: it pays them, for programs that speak to a weir.
//
//	http.Client -> Transport -> http.RoundTripper ----- request -----------> gate
//	                   ^                          <---- Stamp-Challenge ---'
//	                   |  Pay: solve, on all cores
//	                   '------------------------- request, with Stamp -----> gate -> service
//
// Most callers want Transport: put into an http.Client, it answers challenges by itself, and the program does not
// notice more than a slow request. Pay works on a single challenge that came some other way.
//
// Mail is stamped before it is sent, without asking: ReadMail, Mail.Stamp and Mail.WriteTo, for a pipe to sendmail.
// What a stamp of a mail is bound to is said here too, by BodyID and Recipient, for both sides.
package payer
