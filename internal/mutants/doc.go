// Command mutants asks whether the tests would notice a mistake. It makes one small mistake at a time (a comparison
// turned around, a call left out, a number that is one off), runs the tests of the package and of those that depend
// on it, and lists the mistakes that no test noticed:
//
//	go run ./internal/mutants -n 255
//	go run ./internal/mutants -only mail/spool,mail/login -n 40 -seed 2
//
// No file in the tree is changed: the compiler gets the changed file by go build -overlay. A survivor that is not
// explained in explained.txt is a failure. Which mutants are tried depends on the seed and on the mutated line, so that
// a change elsewhere does not select others.
package main
