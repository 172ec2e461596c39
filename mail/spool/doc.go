// Package spool keeps mail from the moment it is accepted until it is delivered, bounced or deleted.
//
// A gate writes the text of a message to what Stage returns, and calls Accept. Accept asks the throttles about each
// recipient, and stores the message, its addressees and what the throttles remember in one transaction: when it
// returns, all of it is safe. Recipients that may go on are handed to the workers of the gate in memory. RunDue finds
// everything else in the store when it is due: recipients that leave the delay queue, messages and users that are tried
// again, and what a crash has left behind. RunDue is given the time. Run calls it whenever there is something to do.
//
// A Spool has four parts. Each knows only those before it: delivery (workers, retries, bounces), reaches (what reach
// throttles know of users), queue (accepting, keeping, and what the mail throttle knows of users) and desk (what users
// and operators do). They share an env.
//
// The states of a recipient, as the store has them:
//
//	Delayed -- leaves the queue, or is released --> Ready -- before the final dot --> Sending -- taken --> gone
//	   |                                              ^                                  |
//	   |  the user is stopped                         +--------- not taken: later -------+-- refused: bounced, gone
//	   v                                              |                                  |
//	  Held ------------ released ---------------------+   after a crash: ambiguous: Ready or Held, and in the log
//
// A Ready recipient with an Owner has been handed to the workers of that process, and is left to them until Due.
// Nothing was sent yet: if the process dies, the next one takes it over. A message is Sending only while it is unknown
// whether the next server has it: from just before the final dot until the answer is stored.
//
// What throttles say about a recipient has one vocabulary. Package outbreak and package reach call it Fate, a Receipt
// counts it, the store keeps it as a State, and postfixgate tells it to Postfix:
//
//	fate      outbreak.Fate  reach.Fate  store.State  Receipt   Verdict (of Decide)  Postfix
//	pass      Pass           Pass        Ready        Passed    Pass                 DUNNO
//	delay     Delay                      Delayed      Delayed   Delayed              FILTER, HOLD, DEFER or REJECT
//	hold      Hold                       Held         Held      Delayed              … as the gate is configured
//	withhold                 Hold        Withheld     Withheld  Withheld             …
//	pool                                 Pooled       Pooled
//	refuse    (Refused)      Refuse      not stored   an error  Refused              REJECT or DEFER
//
// Pass is the verdict admit of a policy, delay, hold, withhold and pool are wait, and refuse is refuse. A delayed
// recipient leaves by the clock. A held or withheld one waits for a user or an operator, a pooled one for free workers.
package spool
