// Package pages makes what people see of an HTTP gate: the page of a refusal, and that of the waiting room, which asks
// for a stamp, keeps a place in line and sends a form again. It also has the files that these pages load, and the
// cookies by which a browser pays. It decides nothing; the gate fills in what the pages say.
//
// Functions may be called from several goroutines.
package pages
