// Package spool keeps mail from the moment it is accepted until it is delivered, bounced or deleted.
//
// A gate writes the text of a mail to what Stage returns, and calls Accept. Accept asks the mail throttle for a place
// for each recipient, and stores the mail, whom it has to reach and what the throttle remembers in one transaction:
// when it returns, all of it is safe. What may go on is handed to the workers of the gate in memory; everything else is
// found in the store by RunDue, which does whatever is due: recipients that leave the delay queue, mails that are tried
// again, users who are tried again, and what a crash has left behind. RunDue is given the time; Run calls it whenever
// there is something to do.
//
// The states of a recipient, as the store has them:
//
//	Delayed -- leaves the queue, or is released --> Ready -- just before the final dot --> Sending -- taken --> gone
//	   ^                                              ^                                       |
//	   |  resumed / stopped                           +------------ not taken: later ---------+-- refused: bounced, gone
//	   v                                              |                                       |
//	  Held ------------ released ---------------------+               after a crash: ambiguous: Ready or Held, and in the audit log
//
// A recipient who is Ready and has an Owner has been handed to the workers of that process, and is left to them until
// Due. Nothing was sent yet: should the process die, the next one takes it over without further ado.
//
// A mail is Sending only while it cannot be known whether the next server has it: from just before the final dot until
// the answer is stored.
package spool
