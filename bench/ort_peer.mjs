// ONNX Runtime on the same files, a peer for tools/bench_models: node ort_peer.mjs FOLDER THREADS
// RUNS, in a folder where `npm i onnxruntime-node` was run. Prints "first=MS median=MS", the first
// with loading.
import { createRequire } from 'module';
import fs from 'fs';

const ort = createRequire(process.cwd() + '/')('onnxruntime-node');
const [folder, threads, runs] = process.argv.slice(2);
const start = performance.now();
const session = await ort.InferenceSession.create(folder + '/model.onnx', {
  intraOpNumThreads: +threads, interOpNumThreads: 1, executionMode: 'sequential',
  graphOptimizationLevel: 'all', logSeverityLevel: 3,
});

// inputs.safetensors: the length of a header, the header (in0, in1, ...), the numbers
const file = fs.readFileSync(folder + '/inputs.safetensors');
const length = Number(file.readBigUInt64LE(0));
const header = JSON.parse(file.subarray(8, 8 + length).toString());
const feeds = {};
session.inputNames.forEach((name, i) => {
  const { dtype, shape, data_offsets: [from, to] } = header['in' + i];
  const bytes = new Uint8Array(file.subarray(8 + length + from, 8 + length + to)).buffer;
  feeds[name] = dtype === 'F32' ? new ort.Tensor('float32', new Float32Array(bytes), shape)
                                : new ort.Tensor('int64', new BigInt64Array(bytes), shape);
});
await session.run(feeds);
const first = performance.now() - start;
const times = [];
for (let i = 0; i < +runs; i++) {
  const begin = performance.now();
  await session.run(feeds);
  times.push(performance.now() - begin);
}
times.sort((a, b) => a - b);
console.log(`first=${first.toFixed(2)} median=${times[times.length >> 1].toFixed(2)}`);
