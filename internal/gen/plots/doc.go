// Command plots draws the measurements in lab/bench/*.csv as the plots of the documentation: bloomcollateral.csv
// becomes docs/img/bloom-collateral.svg, and proxy*.csv docs/img/proxy-*.svg. The points are made by
// go run ./lab/bench -write. The output is the same on every run, and is readable on light and on dark pages.
//
//	go generate ./internal/gen/plots
package main

//go:generate go run .
