// Command release makes everything that a version consists of, from the source alone: archives with a static binary for
// every system and processor, a bill of materials for each, packages for Debian and for systems with rpm, an image, and
// their checksums. The same commit gives the same bytes. make release calls it.
package main
