package main

import (
	"os"
	_ "time/tzdata" // periods of the calendar have time zones, and the machine may know none
)

func main() {
	os.Exit(run(os.Args[1:], newTerminal(os.Stdout, os.Stderr)))
}
