// Package plot draws plots as SVG for the pages of the console and of the reports, and for the documentation.
//
// Positions are written in percent of the width and height. The browser stretches a plot to the size that it has, while
// text keeps its size. Colors are CSS variables of the page; CSS has the rules that all pages share. Series differ in
// dashes and signs too, for readers who do not tell the colors apart.
package plot
