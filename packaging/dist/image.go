package main

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"os"
	"path"
	"time"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	v1 "github.com/opencontainers/image-spec/specs-go/v1"
)

// An image is an OCI image layout that grows by an architecture at a time.
type image struct {
	blobs     map[digest.Digest][]byte
	manifests []v1.Descriptor
	version   string
	time      time.Time
}

func newImage(version string, mtime time.Time) *image {
	return &image{blobs: map[digest.Digest][]byte{}, version: version, time: mtime}
}

// add adds the image of an architecture, FROM scratch: /bperf, the licences, and nothing else.
func (i *image) add(arch string, files []file) error {
	var layer []file
	for _, f := range files {
		switch {
		case f.tarball == "bperf":
			f.path = "/bperf"
		case f.tarball == "LICENSE", f.tarball == "THIRD-PARTY-NOTICES", path.Dir(f.tarball) == "LICENSES":
			f.path = path.Join("/licenses", path.Base(f.tarball))
		default:
			continue
		}
		layer = append(layer, f)
	}
	var plain bytes.Buffer
	if err := writeTar(&plain, layer, i.time); err != nil {
		return err
	}
	platform := v1.Platform{OS: "linux", Architecture: arch}
	config, err := i.addJSON(v1.MediaTypeImageConfig, v1.Image{
		Created:  &i.time,
		Platform: platform,
		Config: v1.ImageConfig{Entrypoint: []string{"/bperf"}, Labels: map[string]string{
			v1.AnnotationTitle: "bperf", v1.AnnotationVersion: i.version, v1.AnnotationSource: homepage, v1.AnnotationLicenses: licence,
		}},
		RootFS:  v1.RootFS{Type: "layers", DiffIDs: []digest.Digest{digest.FromBytes(plain.Bytes())}},
		History: []v1.History{{Created: &i.time, CreatedBy: "packaging/dist"}},
	})
	if err != nil {
		return err
	}
	manifest, err := i.addJSON(v1.MediaTypeImageManifest, v1.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: v1.MediaTypeImageManifest,
		Config: config, Layers: []v1.Descriptor{i.addBlob(v1.MediaTypeImageLayerGzip, compressed(plain.Bytes()))},
	})
	if err != nil {
		return err
	}
	manifest.Platform = &platform
	i.manifests = append(i.manifests, manifest)
	return nil
}

func (i *image) addJSON(mediaType string, value any) (v1.Descriptor, error) {
	data, err := json.Marshal(value)
	if err != nil {
		return v1.Descriptor{}, err
	}
	return i.addBlob(mediaType, data), nil
}

func (i *image) addBlob(mediaType string, data []byte) v1.Descriptor {
	d := digest.FromBytes(data)
	i.blobs[d] = data
	return v1.Descriptor{MediaType: mediaType, Digest: d, Size: int64(len(data))}
}

// write writes the layout as a tar file, which podman, skopeo and others read as oci-archive. Its one entry is an index of all
// architectures.
func (i *image) write(name string) error {
	index := v1.Index{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: v1.MediaTypeImageIndex, Manifests: i.manifests}
	all, err := i.addJSON(v1.MediaTypeImageIndex, index)
	if err != nil {
		return err
	}
	all.Annotations = map[string]string{v1.AnnotationRefName: i.version}
	index.Manifests = []v1.Descriptor{all}
	top, err := json.Marshal(index)
	if err != nil {
		return err
	}
	layout, err := json.Marshal(v1.ImageLayout{Version: v1.ImageLayoutVersion})
	if err != nil {
		return err
	}
	const mode = fs.FileMode(0o644)
	files := []file{
		{path: v1.ImageLayoutFile, data: layout, mode: mode},
		{path: v1.ImageIndexFile, data: top, mode: mode},
	}
	for d, data := range i.blobs {
		files = append(files, file{path: path.Join(v1.ImageBlobsDir, d.Algorithm().String(), d.Encoded()), data: data, mode: mode})
	}
	var b bytes.Buffer
	if err := writeTar(&b, files, i.time); err != nil {
		return err
	}
	return os.WriteFile(name, b.Bytes(), 0o666)
}
