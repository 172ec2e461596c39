// Package farmtest has what tests of farms need: the suite that every farm.Bus passes, a farm.Pot in memory, and a farm
// in simulated time.
//
// A Sim has one heap of events and one thread. Its nodes run the real farm.Farm, and whatever else is given the time,
// over a bus that delays, loses, repeats and reorders. The same seed gives the same run.
package farmtest
