"""How the page looks: one sheet, light and dark, from a phone to a wide screen."""

from typing import Final

STYLE: Final = """
:root{--back:#f6f7f9;--card:#fff;--ink:#1b2430;--soft:#66717f;--line:#e3e7ec;--track:#eef1f5;--s0:#3f7fd6;
--s1:#e2853a;--s2:#2f9e80;--s3:#9b6bd3;--s4:#c8a11c;--s5:#d25468;--s6:#4aa5b8;--rest:#b6bec8}
@media(prefers-color-scheme:dark){
:root{--back:#12161c;--card:#1a2029;--ink:#e6eaf0;--soft:#93a0b0;--line:#2b3440;--track:#252d38;--s0:#6ba3f0;
--s1:#f0a05c;--s2:#4fc3a1;--s3:#b78ff0;--s4:#e0bd4a;--s5:#ea7a8c;--s6:#6fc4d6;--rest:#566171}
}
*{box-sizing:border-box}
body{margin:0;background:var(--back);color:var(--ink);font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,
sans-serif}
main{max-width:1080px;margin:0 auto;padding:28px 20px 40px}
header{margin-bottom:20px}
h1{font-size:26px;line-height:1.2;margin:0;overflow-wrap:anywhere}
header p,footer,section p{color:var(--soft);margin:4px 0 0;font-size:13px}
h2{font-size:17px;margin:0 0 4px}
h3{font-size:14px;margin:0;font-weight:600}
code{font:inherit;color:var(--s0)}
section{background:var(--card);border:1px solid var(--line);border-radius:12px;padding:18px 20px;margin-top:16px;
min-width:0}
.two{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,380px),1fr));gap:16px 32px}
.two>section{margin-top:16px}
section .two{margin-top:18px;gap:26px 36px}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(132px,1fr));gap:10px}
.tiles div{background:var(--card);border:1px solid var(--line);border-radius:12px;padding:12px 14px}
.tiles b{display:block;font-size:22px;line-height:1.25;font-weight:650;font-variant-numeric:tabular-nums}
.tiles span{color:var(--soft);font-size:12.5px;line-height:1.3;display:block}
.tiles.inner{margin-top:10px}
.tiles.inner div{background:var(--track);border:0}
.tiles.inner b{font-size:18px}
.plot{margin-top:14px;padding-left:44px}
.plot .box{position:relative;height:210px;border-bottom:1px solid var(--soft)}
.plot.small .box{height:130px}
.plot svg{position:absolute;inset:0;width:100%;height:100%;display:block}
.plot .y span{position:absolute;left:-44px;right:0;border-bottom:1px solid var(--line);height:0;font-size:11.5px;
color:var(--soft)}
.plot .y span{line-height:0}
.plot .x{display:flex;justify-content:space-between;color:var(--soft);font-size:11.5px;margin-top:4px}
.plot.small .x span{flex:1;text-align:center;white-space:nowrap}
.two>section .plot.small .box{height:220px}
.plot .unit{display:block;color:var(--soft);font-size:12px;margin:0 0 10px -44px}
.hover{fill:transparent}
.hover:hover{fill:var(--ink);fill-opacity:.12}
.legend span{display:inline-flex;align-items:center;margin:4px 14px 0 0;color:var(--ink);overflow-wrap:anywhere}
.legend i{width:10px;height:10px;border-radius:3px;margin-right:6px;flex:none}
.bars{list-style:none;margin:10px 0 0;padding:0;display:grid;grid-template-columns:fit-content(34%) minmax(40px,
1fr) auto;gap:6px 12px;align-items:center;font-size:13px}
.bars li{display:contents}
.bars .name{overflow:hidden;text-overflow:ellipsis;white-space:nowrap}
.bars .value{text-align:right;color:var(--soft);font-variant-numeric:tabular-nums;white-space:nowrap}
.track{background:var(--track);border-radius:5px;height:10px;display:block;overflow:hidden;min-width:40px}
.track i{display:block;height:100%;background:var(--s0);border-radius:5px;min-width:2px}
.wide{overflow-x:auto;margin-top:8px}
table{border-collapse:collapse;width:100%;font-size:13px}
th,td{text-align:left;padding:7px 14px 7px 0;border-bottom:1px solid var(--line);vertical-align:middle}
thead th{color:var(--soft);font-weight:500}
tbody tr:last-child>*{border:0}
tbody th{font-weight:600}
td{white-space:nowrap}
td:last-child{white-space:normal;min-width:150px}
td .track{display:inline-block;width:72px;vertical-align:middle;margin-right:4px}
.n{text-align:right;font-variant-numeric:tabular-nums}
.kind{white-space:nowrap;margin-right:8px}
.chip{display:inline-block;background:var(--track);border-radius:6px;padding:1px 7px;margin:2px 3px 2px 0;
white-space:nowrap}
.chip b{color:var(--soft);font-weight:500;margin-left:6px}
footer{margin-top:20px}
.nothing{font-size:15px}
@media(max-width:560px){
main{padding:18px 12px 28px}
section{padding:14px}
h1{font-size:21px}
.tiles b{font-size:19px}
.plot{padding-left:38px}
.plot .y span{left:-38px}
.plot .unit{margin-left:-38px}
.plot .box{height:180px}
.tiles{grid-template-columns:repeat(auto-fit,minmax(104px,1fr))}
.two{gap:0 16px}
section .two{gap:24px}
}
"""
