// Package settings is what operators set on a running weir, beside its configuration: the limit of one account, or all
// throttles in shadow. It takes effect at once, stays over restarts, and reaches all nodes of a farm.
//
//	operator: Set, Remove ──┐
//	other nodes: Hear ──────┼─> Settings ──> changed: whoever acts on it looks again
//	store: Keep, at start ──┘    └─────────> the store, and other nodes
//
// What a setting means is not known here: whoever acts on a kind reads the values of that kind. Of two words about the
// same thing the later one counts, in whatever order they come. A removal is remembered for a while, so that a node
// that was away does not bring the setting back.
//
// Settings are bounded: at most Max settings, and as many removals. Time is passed in. Goroutines may share it.
package settings
