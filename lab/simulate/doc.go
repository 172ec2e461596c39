// Package simulate lets operators look before they throttle: it holds a mail log, a virus or a flood against the
// mechanisms that weir would run, and tells who would have been delayed, stopped, flagged or refused.
//
//	log -> Entries, in order -> Replay: a state per parameter and user, in one pass -> Study -> table, JSON, Report
//
// Nothing here is a model of the mechanisms: they are the same ones that gates use, given the times of the log. A log
// is read once and never held; what is kept is bounded per user.
package simulate
