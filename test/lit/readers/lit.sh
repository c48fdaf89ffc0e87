# run my tests with the private binary
cd /work/main
mkdir -p /tmp/mt/bld/bin /tmp/mt/bld/test; cp /tmp/mt/culprit /tmp/mt/bld/bin/culprit; cp -r build/test/lit.site.cfg.py /tmp/mt/bld/test/ 2>/dev/null
sed -i 's#/work/main/build#/tmp/mt/bld#g' /tmp/mt/bld/test/lit.site.cfg.py
python3 /usr/lib/llvm-19/build/utils/lit/lit.py -sv /tmp/mt/bld/test --filter "$1" 2>&1 | tail -${2:-80}
