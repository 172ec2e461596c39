// Package arch keeps the rules of the house as tests: which package stands on which floor, what it may import, and a
// few habits that are easier kept than restored. There is nothing to import here.
package arch
