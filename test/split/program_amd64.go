package split

import _ "embed"

//go:embed testdata/split-amd64
var program []byte
