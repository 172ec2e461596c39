package stamp

import (
	"bytes"
	_ "embed"
	"encoding/base64"
	"regexp"
	"sync"
)

//go:generate sh generate.sh eqs60

//go:embed solver.js
var solverSource []byte

// eqsModule is the search for solutions of eqs60 as WebAssembly, made of eqs60.wat.
//
//go:embed eqs60.wasm
var eqsModule []byte

//go:embed fetch.js
var fetchScript []byte

// solverScript is the solver with the module inside, so that a worker needs no other file, and without comments and
// margins, which a phone need not load.
var solverScript = sync.OnceValue(func() []byte {
	// Spaces at the beginning of lines, and comments that have a line of their own.
	margins := regexp.MustCompile(`(?m)^ *//.*\n|^ +`)
	return bytes.Replace(margins.ReplaceAll(solverSource, nil), []byte("@eqs60.wasm@"),
		[]byte(base64.StdEncoding.EncodeToString(eqsModule)), 1)
})

// Scripts returns the files for browsers: solver.js, which pays challenges of every algorithm in Web Workers, and
// fetch.js, a fetch that pays by itself with the solver beside it. The bytes must not be changed.
//
// A worker has the Content-Security-Policy that solver.js was served with. With one that does not allow WebAssembly by
// script-src 'wasm-unsafe-eval', it solves eqs60 in plain JavaScript, which takes two to three times as long.
func Scripts() map[string][]byte {
	return map[string][]byte{"solver.js": solverScript(), "fetch.js": fetchScript}
}
