// Package doorway says what a client that asks over HTTP is told of limits.
package doorway
