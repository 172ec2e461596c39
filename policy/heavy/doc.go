// Package heavy finds the names that occur most often, in fixed memory: who is held back most.
//
// A Sketch has 256 slots for names in 16 sets. The set of a name follows from a keyed hash, so that nobody can choose
// it. Within its set a name that has a slot is counted. One that has none takes the slot of the name with the
// smallest count c with a probability of n/(c+n), where n is what it adds, and inherits the count (randomized
// admission, a form of Space-Saving). Two things follow:
//
//   - A count is too high by at most its Over, and Over is at most 1/16 of what was added to its set: about 1/256 of
//     what was added to the sketch.
//   - Someone who sends each time under a new name pushes out names with small counts only. After m such events the
//     smallest count is about sqrt(2m/256), and not m/256 as with Space-Saving alone. A name that is added more often
//     than that many times keeps its slot, or gets one.
//
// Counts halve every half-life. A name whose count is down to nothing is forgotten, at the earliest a half-life after
// it came last.
package heavy
