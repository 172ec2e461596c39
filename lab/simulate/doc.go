// Package simulate lets operators look before they throttle: it runs a mail log, a virus or a flood through the
// mechanisms of weir, and tells who would have been delayed, stopped, flagged or refused.
//
//	log -> Entries, in order -> Replay: a state per parameter and user, in one pass -> Study -> table, JSON, Report
//
// The mechanisms are no models: they are the ones that gates use, given the times of the log. A log is read once and
// never held. What is kept is bounded per user.
package simulate
