// Package payer is the client's side of stamps: it pays them for programs that talk to a weir.
//
//	http.Client -> Transport -> http.RoundTripper ----- request -----------> gate
//	                   ^                          <---- Stamp-Challenge ---'
//	                   |  Pay: solve, on all cores
//	                   '------------------------- request, with Stamp -----> gate -> service
//
// Most callers want Transport: in an http.Client, it answers challenges by itself, and the program notices only a slow
// request. Pay works on a single challenge that came some other way.
//
// Mail is stamped before it is sent, without asking: ReadMail, Mail.Stamp and Mail.WriteTo, for a pipe to sendmail.
// A stamp of a mail is bound to stamp.BodyID and Recipient.
package payer
