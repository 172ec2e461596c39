// Package weir is the vocabulary of a throttling layer: what happened (Event), what is decided about it (Answer), and
// who decides (Throttle). The packages below it are mechanisms that decide, the packages above it are gates that act.
//
//	listener -> identify who and what -> ask the throttles, in order -> one verdict -> act -> account
//	  gate          identify                  policy, mechanisms                        gate    console
//
// A gate accepts a connection, turns what came into an Event and asks its policy, an ordered list of throttles. Each
// throttle answers with one of four verdicts, in rising severity:
//
//	Admit      go on now
//	Wait       go on later: a place in a line
//	Challenge  go on after paying
//	Refuse     do not go on; here is why, and when to come back
//
// The severest verdict wins and the longest wait counts. Whatever the throttles took for an event that does not go on
// is given back. A mechanism decides and never acts: it knows no HTTP and no SMTP, holds no clock and never sleeps.
// Time comes in with the event, and what falls due by itself is advanced from outside (Clocked).
//
// The life of one event:
//
//	Judge ── Admit ─────────────┬─ Enter (levels) ─ Away ─ Flow (bytes) ... ─ Settle
//	   └──── Wait ─ Turn called ┘
//	   └──── Refuse: nothing was taken
//
// Units that people write in a configuration (Duration, Period, Rate, Size, Share) live here too.
package weir
