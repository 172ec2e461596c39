// Package lint keeps the rules of style as tests: how wide lines are, which words comments, texts and pages use, and
// that the figures of pages are those that were measured. "make lint" runs it; whether weir works is seen elsewhere.
// There is nothing to import here.
package lint
