// Package accesslog writes the lines of an access log: as JSON, in the combined format of nginx and Apache, or by a
// template. No value of a client can end a line, or a quoted part of one.
//
// Most callers want Options.Ready and Format.Append. A Format does not change and may be shared by goroutines.
package accesslog
