package split

import _ "embed"

//go:embed testdata/split-arm64
var program []byte
