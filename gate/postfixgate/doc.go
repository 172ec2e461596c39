// Package postfixgate is a policy service of Postfix (SMTPD_POLICY_README, check_policy_service). Postfix asks about
// each recipient and each message, and does what it is told.
//
// Most callers want New, Listen, Start and Stop. Prepare takes new options while Postfix goes on asking.
//
// Only messages of users are judged: of those who logged in, and of clients in networks that may send without. For all
// others, such as incoming mail, the answer is DUNNO.
//
//	RCPT            a stopped user is refused at once; the throttles judge the recipient; the gate remembers it
//	DATA            the message is judged as a whole, once; with over: filter, one that must wait is marked (PREPEND)
//	END-OF-MESSAGE  the same if DATA was not asked about; with over: filter, a marked message is diverted (FILTER)
//
// Only at DATA is it known how many recipients a message has, and Postfix then names a single recipient but not
// several. So the gate collects them by the instance that all requests about a message share. One smtpd of Postfix
// handles one message at a time and has a connection of its own: when it asks about another message, the last one is
// forgotten.
//
// A diverted message is not charged here but where it arrives, at a gate for mail. Postfix does not tell that gate who
// sent it, but the mark does (identify.Mark): a signed header field above all others, which is removed on arrival.
//
// Time comes from Env.Clock, with one exception: the operating system keeps the deadlines of sockets in real time.
package postfixgate
