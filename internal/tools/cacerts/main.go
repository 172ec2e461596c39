// Command cacerts prints the certificate authorities that Mozilla trusts, as of the version of the module they come in,
// for an image in which there is nothing else.
package main

import (
	"bufio"
	"encoding/pem"
	"fmt"
	"os"

	"golang.org/x/crypto/x509roots/fallback/bundle"
)

func main() {
	out := bufio.NewWriter(os.Stdout)
	for root := range bundle.Roots() {
		if root.Constraint != nil {
			continue // a file of certificates cannot say for what they are trusted in part
		}
		if err := pem.Encode(out, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	if err := out.Flush(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
