// Package quota limits what each account may use: requests and bytes per period, requests at once, time between two.
//
// A Quota holds every event against all policies that match it, and charges all of them or none. An event over a limit
// is refused, or may go on for a stamp, or joins its account's line: it is called when every policy allows
// it, first come first served, ahead of events that come later. Whoever leaves the line moves the others up.
//
// Most programs want New and Allow. Gates want Judge and Settle, and call Advance when Alarm said so. All methods are
// safe for concurrent use, and time is always passed in. An admitted event allocates nothing once its account is known.
//
// Counters are in memory. Dirty hands out changed counters with long periods; Restore takes them after a restart.
//
// The table of accounts is bounded. An account that the upstream has accepted (Outcome.Status), or that the options
// name, is never pushed out while it is limited. Others are on probation: when the table is full, newcomers push them
// out, and what they used goes to limits that they share. So inventing accounts keeps nobody out and gains nothing.
package quota
