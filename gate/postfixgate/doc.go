// Package postfixgate is the gate for those who keep their Postfix: its policy service (SMTPD_POLICY_README,
// check_policy_service). Postfix asks about each recipient and each mail, and does what it is told.
//
// Most callers want New, Listen, Start and Stop; Prepare takes new options while Postfix goes on asking.
//
// Only the mail of users is judged: of those who logged in, and of clients in networks that may send without.
// Everything else, such as mail that comes in, is none of the gate's business, and the answer is DUNNO.
//
//	RCPT            a stopped user is refused at once; the throttles judge the recipient; the gate remembers it
//	DATA            the mail is judged as a whole, once; with over: filter, one that must wait is marked (PREPEND)
//	END-OF-MESSAGE  the same where DATA was not asked about; with over: filter, a marked mail is diverted (FILTER)
//
// Whether a mail has one recipient or several is known at DATA only, and Postfix then names the recipient of a mail to
// one alone, so the gate collects them by the instance that all requests about a mail share. One smtpd of Postfix
// handles one mail at a time and asks over a connection of its own: when it asks about another mail, the one before is
// forgotten.
//
// A mail that is diverted is not charged here but where it arrives, at a gate for mail, which cannot know who sent it:
// Postfix does not tell. The mark does (identify.Mark), in a header field above all others that is signed and is taken
// out again on arrival.
//
// Time comes from Env.Clock, with one exception: deadlines of sockets are kept by the operating system in real time.
package postfixgate
