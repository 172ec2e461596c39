// Command testreport runs "go test -json" and reports its results, for "make test".
//
// It prints a line for each package as it ends and the output of each test that fails. At the end it prints the time,
// the slowest packages and what was skipped. The last lines name each test that failed, with its reason, so that
// whoever sees only the end of a log sees what to mend.
package main
