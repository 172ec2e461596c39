// Package stamp lets clients pay with CPU time for something expensive. A person does not notice it; a flood does.
//
//	          Difficulty.Next(load, delay) -> work
//	                        |
//	Issuer.Issue(client, message, work) -> challenge --- to the client ---> Solve, or solver.js in the browser
//	                                                                                    |
//	Receipt <- Issuer.Verify(stamp, client, message) <--- challenge "." solution -------+
//	               form, tag, expiry, whose it is, spent? (cheap: at once)
//	               the solution; then spent (Ledger)
//
// Most callers want New, Issue and Verify; gates want a Throttle, which asks under load. A challenge is stateless:
// everything that verifying needs is in it, under an HMAC, the work included, so nothing is stored for those who never
// pay and today's policy does not judge yesterday's stamps. Keys follow from a secret and the time (Keyring); the nodes
// of a farm with the same secret honour each other's. What is spent is known by the challenge's nonce, not by the
// solution, which can be varied, and noted only after everything else was right: a wrong answer burns nobody's stamp. A
// stamp may cover several requests; uses are counted in the same table (Filter), exactly, also when they race.
//
// In a farm (Throttle.Join) the nonce names the node that issued it. All others ask that node, which decides; when it
// is gone, the client is asked for another stamp. Without a farm none of this is there.
//
// All of it is safe for concurrent use. Nothing reads a clock. What may wait is a question to another node, for
// AskTimeout at most.
//
// # What it costs
//
// Work is the expected number of basic operations, and means the same for each algorithm but one:
//
//   - sha256-k: a hash. It takes one HMAC to issue, and an HMAC and 16 hashes to verify. Attackers gain by hardware
//     made for hashing: one data-centre GPU does 15.6 G/s, a browser's thread 3 M/s. At 20 bits a browser pays 0.35 s;
//     the GPU makes 14,800 stamps a second.
//   - eqs60: eight of the 65,536 values of a counter, hashed, sorted and added up. It takes one HMAC to issue, and an
//     HMAC, a hash and 144 SipHashes to verify. That GPU does the work of about 360 browser threads, a tenth of its
//     advantage with sha256-k; allow a skilled attacker two to four times that.
//   - dlog and dlog-classic: the puzzles of the source document, in package classic.
//
// So a stamp is a price for a place in line, never a proof of being human. The price has to rise with the load, be paid
// per request, and be paid again. Of a hundred stamps of sha256-k or eqs60 the costliest takes 1.68 times the average.
//
// # Difficulty
//
// By default it follows the delay of stamped requests (Difficulty): nothing below from_load, up fast, down by a third,
// never more than a phone can bear. The source document's two schedules are there too: steps of load, and doubling.
//
// # Mail
//
// A mail server publishes MailParams: algorithm, work and a seed that changes by the hour. MailStamp makes a stamp for
// one recipient from them; MailIssuer verifies it. The recipient is inside the puzzle: a copied stamp is worth nothing.
package stamp
