// Package country says which country an address is in, by a file in the MaxMind format (MMDB).
package country
