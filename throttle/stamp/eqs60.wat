;; The search for solutions of eqs60, for browsers. It is the one of eqstable.go, with the same tables. All of it is standard
;; WebAssembly of version 1, in folded form; "go generate" makes eqs60.wasm of it, and any other assembler makes the same program.
;;
;; Memory, in bytes:
;;         0  the key: the state of SipHash before the first word, four words of 64 bits
;;        64  solutions, 16 bytes each, at most 16
;;      1024  how many entries each of 256 buckets has, in three rounds
;;      4608  the next entry of each entry of a bucket, plus one
;;      8192  first: values of the first round; sums and places of the third. A bucket has room for 384 entries
;;    794624  second: sums of the second round
;;   1581056  the two indices of each entry of the second round
;;   1974272  the index of each entry of the first round
;;   2170880  the first entry of each chain, plus one: of 128 chains, and of 2048 in the third round
(module
  (memory (export "memory") 34 34)

  ;; solve searches a counter and returns how many solutions it has. One in which an index comes twice may be among them.
  (func $solve (export "solve") (param $counter i32) (result i32)
    (local $i i32) (local $bucket i32) (local $n i32) (local $at i32) (local $round i32) (local $found i32)
    (local $m i64) (local $a i64) (local $b i64) (local $c i64) (local $d i64)
    (loop $clear
      (i64.store offset=1024 (local.get $i) (i64.const 0))
      (local.set $i (i32.add (local.get $i) (i32.const 8)))
      (br_if $clear (i32.lt_u (local.get $i) (i32.const 3072))))
    (local.set $i (i32.const 0))
    (loop $values
      (local.set $m (i64.or (i64.shl (i64.extend_i32_u (local.get $counter)) (i64.const 16)) (i64.extend_i32_u (local.get $i))))
      (local.set $a (i64.load (i32.const 0)))
      (local.set $b (i64.load (i32.const 8)))
      (local.set $c (i64.load (i32.const 16)))
      (local.set $d (i64.xor (i64.load (i32.const 24)) (local.get $m)))
      (local.set $round (i32.const 0))
      (loop $sip
        (local.set $a (i64.add (local.get $a) (local.get $b)))
        (local.set $c (i64.add (local.get $c) (local.get $d)))
        (local.set $b (i64.xor (i64.rotl (local.get $b) (i64.const 13)) (local.get $a)))
        (local.set $d (i64.xor (i64.rotl (local.get $d) (i64.const 16)) (local.get $c)))
        (local.set $a (i64.rotl (local.get $a) (i64.const 32)))
        (local.set $c (i64.add (local.get $c) (local.get $b)))
        (local.set $a (i64.add (local.get $a) (local.get $d)))
        (local.set $b (i64.xor (i64.rotl (local.get $b) (i64.const 17)) (local.get $c)))
        (local.set $d (i64.xor (i64.rotl (local.get $d) (i64.const 21)) (local.get $a)))
        (local.set $c (i64.rotl (local.get $c) (i64.const 32)))
        (if (i32.eqz (local.get $round)) (then
          (local.set $a (i64.xor (local.get $a) (local.get $m)))
          (local.set $c (i64.xor (local.get $c) (i64.const 255)))))
        (local.set $round (i32.add (local.get $round) (i32.const 1)))
        (br_if $sip (i32.lt_u (local.get $round) (i32.const 4))))
      (local.set $a (i64.xor (i64.xor (local.get $a) (local.get $b)) (i64.xor (local.get $c) (local.get $d))))
      (local.set $bucket (i32.and (i32.wrap_i64 (local.get $a)) (i32.const 255)))
      (local.set $n (i32.load offset=1024 (i32.shl (local.get $bucket) (i32.const 2))))
      (if (i32.lt_u (local.get $n) (i32.const 384)) (then
        (i32.store offset=1024 (i32.shl (local.get $bucket) (i32.const 2)) (i32.add (local.get $n) (i32.const 1)))
        (local.set $at (i32.add (i32.mul (local.get $bucket) (i32.const 384)) (local.get $n)))
        (i64.store offset=8192 (i32.shl (local.get $at) (i32.const 3)) (local.get $a))
        (i32.store16 offset=1974272 (i32.shl (local.get $at) (i32.const 1)) (local.get $i))))
      (local.set $i (i32.add (local.get $i) (i32.const 1)))
      (br_if $values (i32.lt_u (local.get $i) (i32.const 65536))))
    (local.set $i (i32.const 0))
    (loop $first
      (call $pairs (local.get $i) (i32.and (i32.sub (i32.const 256) (local.get $i)) (i32.const 255)))
      (local.set $i (i32.add (local.get $i) (i32.const 1)))
      (br_if $first (i32.le_u (local.get $i) (i32.const 128))))
    (local.set $i (i32.const 0))
    (loop $second
      (call $fours (local.get $i) (i32.and (i32.sub (i32.const 256) (local.get $i)) (i32.const 255)))
      (local.set $i (i32.add (local.get $i) (i32.const 1)))
      (br_if $second (i32.le_u (local.get $i) (i32.const 128))))
    (local.set $i (i32.const 0))
    (loop $third
      (local.set $found
        (call $eights (local.get $i) (i32.and (i32.sub (i32.const 256) (local.get $i)) (i32.const 255)) (local.get $found)))
      (local.set $i (i32.add (local.get $i) (i32.const 1)))
      (br_if $third (i32.le_u (local.get $i) (i32.const 128))))
    (local.get $found))

  ;; chain puts entry $i of a bucket into the chain of its sum. The last chain is at $last: 508 for 128 chains, 8188 for 2048.
  (func $chain (param $i i32) (param $sum i64) (param $last i32)
    (local $c i32)
    (local.set $c (i32.and (i32.shr_u (i32.wrap_i64 (local.get $sum)) (i32.const 6)) (local.get $last)))
    (i32.store offset=4612 (i32.shl (local.get $i) (i32.const 2)) (i32.load offset=2170880 (local.get $c)))
    (i32.store offset=2170880 (local.get $c) (i32.add (local.get $i) (i32.const 1))))

  ;; begin empties the chains and fills them with the $n entries at $from, whose sums begin at bit $shift. $n is 0 where a bucket meets
  ;; itself.
  (func $begin (param $from i32) (param $n i32) (param $shift i64) (param $last i32)
    (local $i i32)
    (loop $clear
      (i64.store offset=2170880 (local.get $i) (i64.const 0))
      (local.set $i (i32.add (local.get $i) (i32.const 8)))
      (br_if $clear (i32.lt_u (local.get $i) (local.get $last))))
    (local.set $i (i32.const 0))
    (block $done
      (loop $next
        (br_if $done (i32.ge_u (local.get $i) (local.get $n)))
        (call $chain (local.get $i)
          (i64.shr_u (i64.load (i32.add (local.get $from) (i32.shl (local.get $i) (i32.const 3)))) (local.get $shift))
          (local.get $last))
        (local.set $i (i32.add (local.get $i) (i32.const 1)))
        (br $next))))

  ;; pairs is the first round for two buckets, or one and itself.
  (func $pairs (param $bucket i32) (param $mate i32)
    (local $ours i32) (local $theirs i32) (local $i i32) (local $j i32) (local $n i32) (local $at i32) (local $b i32) (local $x i32)
    (local $y i32) (local $v i64) (local $sum i64)
    (local.set $ours (i32.mul (local.get $bucket) (i32.const 384)))
    (local.set $theirs (i32.mul (local.get $mate) (i32.const 384)))
    (call $begin (i32.add (i32.shl (local.get $ours) (i32.const 3)) (i32.const 8192))
      (select (i32.const 0) (i32.load offset=1024 (i32.shl (local.get $bucket) (i32.const 2))) (i32.eq (local.get $bucket) (local.get $mate)))
      (i64.const 0) (i32.const 508))
    (local.set $n (i32.load offset=1024 (i32.shl (local.get $mate) (i32.const 2))))
    (block $done
      (loop $next
        (br_if $done (i32.ge_u (local.get $j) (local.get $n)))
        (local.set $v (i64.load offset=8192 (i32.shl (i32.add (local.get $theirs) (local.get $j)) (i32.const 3))))
        (local.set $i
          (i32.load offset=2170880 (i32.and (i32.shr_u (i32.sub (i32.const 0) (i32.wrap_i64 (local.get $v))) (i32.const 6)) (i32.const 508))))
        (block $end
          (loop $link
            (br_if $end (i32.eqz (local.get $i)))
            ;; An entry of a chain is one more than its place, so that all offsets are less by one entry.
            (local.set $sum (i64.shr_u
              (i64.add (i64.load offset=8184 (i32.shl (i32.add (local.get $ours) (local.get $i)) (i32.const 3))) (local.get $v))
              (i64.const 15)))
            (local.set $b (i32.and (i32.wrap_i64 (local.get $sum)) (i32.const 255)))
            (local.set $at (i32.load offset=2048 (i32.shl (local.get $b) (i32.const 2))))
            (if (i32.lt_u (local.get $at) (i32.const 384)) (then
              (i32.store offset=2048 (i32.shl (local.get $b) (i32.const 2)) (i32.add (local.get $at) (i32.const 1)))
              (local.set $at (i32.add (i32.mul (local.get $b) (i32.const 384)) (local.get $at)))
              (i64.store offset=794624 (i32.shl (local.get $at) (i32.const 3)) (local.get $sum))
              (local.set $x (i32.load16_u offset=1974270 (i32.shl (i32.add (local.get $ours) (local.get $i)) (i32.const 1))))
              (local.set $y (i32.load16_u offset=1974272 (i32.shl (i32.add (local.get $theirs) (local.get $j)) (i32.const 1))))
              (i32.store offset=1581056 (i32.shl (local.get $at) (i32.const 2))
                (select (i32.or (local.get $x) (i32.shl (local.get $y) (i32.const 16)))
                  (i32.or (local.get $y) (i32.shl (local.get $x) (i32.const 16)))
                  (i32.lt_u (local.get $x) (local.get $y))))))
            (local.set $i (i32.load offset=4608 (i32.shl (local.get $i) (i32.const 2))))
            (br $link)))
        (if (i32.eq (local.get $bucket) (local.get $mate)) (then (call $chain (local.get $j) (local.get $v) (i32.const 508))))
        (local.set $j (i32.add (local.get $j) (i32.const 1)))
        (br $next))))

  ;; fours is the second round. An entry of the third is a sum of 30 bits above two places of 17.
  (func $fours (param $bucket i32) (param $mate i32)
    (local $ours i32) (local $theirs i32) (local $i i32) (local $j i32) (local $n i32) (local $at i32) (local $b i32)
    (local $v i64) (local $sum i64)
    (local.set $ours (i32.mul (local.get $bucket) (i32.const 384)))
    (local.set $theirs (i32.mul (local.get $mate) (i32.const 384)))
    (call $begin (i32.add (i32.shl (local.get $ours) (i32.const 3)) (i32.const 794624))
      (select (i32.const 0) (i32.load offset=2048 (i32.shl (local.get $bucket) (i32.const 2))) (i32.eq (local.get $bucket) (local.get $mate)))
      (i64.const 0) (i32.const 508))
    (local.set $n (i32.load offset=2048 (i32.shl (local.get $mate) (i32.const 2))))
    (block $done
      (loop $next
        (br_if $done (i32.ge_u (local.get $j) (local.get $n)))
        (local.set $v (i64.load offset=794624 (i32.shl (i32.add (local.get $theirs) (local.get $j)) (i32.const 3))))
        (local.set $i
          (i32.load offset=2170880 (i32.and (i32.shr_u (i32.sub (i32.const 0) (i32.wrap_i64 (local.get $v))) (i32.const 6)) (i32.const 508))))
        (block $end
          (loop $link
            (br_if $end (i32.eqz (local.get $i)))
            (local.set $sum (i64.shr_u
              (i64.add (i64.load offset=794616 (i32.shl (i32.add (local.get $ours) (local.get $i)) (i32.const 3))) (local.get $v))
              (i64.const 15)))
            (local.set $b (i32.and (i32.wrap_i64 (local.get $sum)) (i32.const 255)))
            (local.set $at (i32.load offset=3072 (i32.shl (local.get $b) (i32.const 2))))
            (if (i32.lt_u (local.get $at) (i32.const 384)) (then
              (i32.store offset=3072 (i32.shl (local.get $b) (i32.const 2)) (i32.add (local.get $at) (i32.const 1)))
              (i64.store offset=8192 (i32.shl (i32.add (i32.mul (local.get $b) (i32.const 384)) (local.get $at)) (i32.const 3))
                (i64.or (i64.shl (local.get $sum) (i64.const 34))
                  (i64.or (i64.shl (i64.extend_i32_u (i32.sub (i32.add (local.get $ours) (local.get $i)) (i32.const 1))) (i64.const 17))
                    (i64.extend_i32_u (i32.add (local.get $theirs) (local.get $j))))))))
            (local.set $i (i32.load offset=4608 (i32.shl (local.get $i) (i32.const 2))))
            (br $link)))
        (if (i32.eq (local.get $bucket) (local.get $mate)) (then (call $chain (local.get $j) (local.get $v) (i32.const 508))))
        (local.set $j (i32.add (local.get $j) (i32.const 1)))
        (br $next))))

  ;; eights is the third round: the sum of all has to be zero. It returns how many solutions there are then.
  (func $eights (param $bucket i32) (param $mate i32) (param $found i32) (result i32)
    (local $ours i32) (local $theirs i32) (local $i i32) (local $j i32) (local $n i32) (local $u i64) (local $v i64)
    (local.set $ours (i32.mul (local.get $bucket) (i32.const 384)))
    (local.set $theirs (i32.mul (local.get $mate) (i32.const 384)))
    (call $begin (i32.add (i32.shl (local.get $ours) (i32.const 3)) (i32.const 8192))
      (select (i32.const 0) (i32.load offset=3072 (i32.shl (local.get $bucket) (i32.const 2))) (i32.eq (local.get $bucket) (local.get $mate)))
      (i64.const 34) (i32.const 8188))
    (local.set $n (i32.load offset=3072 (i32.shl (local.get $mate) (i32.const 2))))
    (block $done
      (loop $next
        (br_if $done (i32.ge_u (local.get $j) (local.get $n)))
        (local.set $v (i64.load offset=8192 (i32.shl (i32.add (local.get $theirs) (local.get $j)) (i32.const 3))))
        (local.set $i
          (i32.load offset=2170880
            (i32.and
              (i32.shr_u (i32.sub (i32.const 0) (i32.wrap_i64 (i64.shr_u (local.get $v) (i64.const 34)))) (i32.const 6))
              (i32.const 8188))))
        (block $end
          (loop $link
            (br_if $end (i32.eqz (local.get $i)))
            (local.set $u (i64.load offset=8184 (i32.shl (i32.add (local.get $ours) (local.get $i)) (i32.const 3))))
            (if
              (i32.and
                (i64.eqz (i64.shl (i64.add (i64.shr_u (local.get $u) (i64.const 34)) (i64.shr_u (local.get $v) (i64.const 34))) (i64.const 34)))
                (i32.lt_u (local.get $found) (i32.const 16)))
              (then
                (call $note (local.get $found) (call $four (local.get $u)) (call $four (local.get $v)))
                (local.set $found (i32.add (local.get $found) (i32.const 1)))))
            (local.set $i (i32.load offset=4608 (i32.shl (local.get $i) (i32.const 2))))
            (br $link)))
        (if (i32.eq (local.get $bucket) (local.get $mate)) (then
          (call $chain (local.get $j) (i64.shr_u (local.get $v) (i64.const 34)) (i32.const 8188))))
        (local.set $j (i32.add (local.get $j) (i32.const 1)))
        (br $next)))
    (local.get $found))

  ;; four is the four indices of an entry of the third round, the smaller pair lower.
  (func $four (param $entry i64) (result i64)
    (local $a i64) (local $b i64)
    (local.set $a (i64.load32_u offset=1581056
      (i32.shl (i32.and (i32.wrap_i64 (i64.shr_u (local.get $entry) (i64.const 17))) (i32.const 131071)) (i32.const 2))))
    (local.set $b (i64.load32_u offset=1581056 (i32.shl (i32.and (i32.wrap_i64 (local.get $entry)) (i32.const 131071)) (i32.const 2))))
    (select
      (i64.or (local.get $a) (i64.shl (local.get $b) (i64.const 32)))
      (i64.or (local.get $b) (i64.shl (local.get $a) (i64.const 32)))
      (i64.lt_u (local.get $a) (local.get $b))))

  ;; note writes a solution, the smaller four first.
  (func $note (param $at i32) (param $a i64) (param $b i64)
    (local.set $at (i32.shl (local.get $at) (i32.const 4)))
    (i64.store offset=64 (local.get $at) (select (local.get $a) (local.get $b) (i64.lt_u (local.get $a) (local.get $b))))
    (i64.store offset=72 (local.get $at) (select (local.get $b) (local.get $a) (i64.lt_u (local.get $a) (local.get $b))))))
