// Package arch keeps the rules of the house as tests: which package stands on which floor, what it may import, and what
// adding a throttle or a gate takes. Rules of style are in package lint. There is nothing to import here.
package arch
