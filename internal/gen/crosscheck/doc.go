// Command crosscheck type-checks all of weir, tests aside, for every system and processor that it is made for. It does
// from source what a compiler does before it makes code: what is not there on one of the systems is found in seconds,
// where eight builds take many minutes. What only making code and linking can find it does not find; make cross does.
package main
