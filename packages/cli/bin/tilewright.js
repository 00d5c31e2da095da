#!/usr/bin/env node
// Stands here, and not in dist, so that `npm install` links the command before anything is built.
import "../dist/bin.js";
